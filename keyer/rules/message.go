package rules

import (
	"cmp"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendMessage writes a message by its structure: its type, and the fields that are set
// by their numbers. An encoding would not do, since that of equal messages may differ.
// Structs and the values in them are written as the JSON that they stand for.
func appendMessage(dst []byte, m protoreflect.Message, depth int) ([]byte, error) {
	if depth > maxNesting {
		return dst, errDeep
	}
	switch m.Descriptor().FullName() {
	case "google.protobuf.Struct", "google.protobuf.ListValue":
		return appendOnly(dst, m, depth)
	case "google.protobuf.Value":
		return appendJSONValue(dst, m, depth)
	}
	dst = append(append(dst, m.Descriptor().FullName()...), '{')
	for i, field := range setFields(m) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, fieldLabel(field)...), ':')
		var err error
		if dst, err = appendField(dst, field, m.Get(field), depth+1); err != nil {
			return dst, err
		}
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		dst = strconv.AppendQuote(append(dst, '?'), string(unknown))
	}
	return append(dst, '}'), nil
}

func setFields(m protoreflect.Message) []protoreflect.FieldDescriptor {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, field)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	return fields
}

func fieldLabel(field protoreflect.FieldDescriptor) string {
	if field.IsExtension() {
		return "[" + string(field.FullName()) + "]"
	}
	return string(field.Name())
}

// appendOnly writes the one field of a message that stands for it.
func appendOnly(dst []byte, m protoreflect.Message, depth int) ([]byte, error) {
	field := m.Descriptor().Fields().Get(0)
	dst, err := appendField(dst, field, m.Get(field), depth)
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		dst = strconv.AppendQuote(append(dst, '?'), string(unknown))
	}
	return dst, err
}

func appendJSONValue(dst []byte, m protoreflect.Message, depth int) ([]byte, error) {
	field := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	var err error
	switch {
	case field == nil:
		dst = append(dst, "unset"...)
	case field.Enum() != nil:
		dst = append(dst, "null"...)
	default:
		dst, err = appendField(dst, field, m.Get(field), depth)
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		dst = strconv.AppendQuote(append(dst, '?'), string(unknown))
	}
	return dst, err
}

func appendField(dst []byte, field protoreflect.FieldDescriptor, value protoreflect.Value, depth int) ([]byte, error) {
	switch {
	case field.IsMap():
		return appendMessageMap(dst, value.Map(), depth)
	case field.IsList():
		return appendMessageList(dst, value.List(), depth)
	}
	return appendSingle(dst, value, depth)
}

func appendMessageMap(dst []byte, m protoreflect.Map, depth int) ([]byte, error) {
	var entries [][]byte
	var failure error
	m.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		entry, err := appendSingle(nil, key.Value(), depth+1)
		if err == nil {
			entry, err = appendSingle(append(entry, ':'), value, depth+1)
		}
		entries, failure = append(entries, entry), err
		return err == nil
	})
	if failure != nil {
		return dst, failure
	}
	return appendSorted(dst, entries), nil
}

func appendMessageList(dst []byte, list protoreflect.List, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for i := range list.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendSingle(dst, list.Get(i), depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendSingle(dst []byte, value protoreflect.Value, depth int) ([]byte, error) {
	switch v := value.Interface().(type) {
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return strconv.AppendQuote(dst, v), nil
	case []byte:
		return strconv.AppendQuote(append(dst, 'b'), string(v)), nil
	case float32:
		return appendNumber(dst, float64(v))
	case float64:
		return appendNumber(dst, v)
	case int32:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case uint32:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case uint64:
		return strconv.AppendUint(dst, v, 10), nil
	case protoreflect.EnumNumber:
		return strconv.AppendInt(dst, int64(v), 10), nil
	}
	return appendMessage(dst, value.Message(), depth)
}
