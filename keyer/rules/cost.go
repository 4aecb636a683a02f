package rules

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// bounded makes a program stop when it has done too much (OPS-5).
func bounded() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CostTracking(dynamicCost{}), cel.CostLimit(maxCost)}
}

const perUnit = 10 // characters, as CEL counts them

// dynamicCost counts what functions do whose arguments have types that show only when
// there is a node, such as values of metadata. CEL counts those as if they were small: a
// loop that joins texts of megabytes would be as cheap as one that counts. Lists that are
// compared it counts as if their elements were characters.
type dynamicCost struct{}

// CallCost implements cost.ActualCostEstimator; nil leaves it to CEL.
func (dynamicCost) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	if overloadID != "" && function != operators.Equals && function != operators.NotEquals {
		return nil
	}
	total := size(result)
	for _, arg := range args {
		total += size(arg)
	}
	return new(1 + total/perUnit)
}

func size(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case traits.Lister: // each element of which is made a value of CEL's
		if n, ok := v.Size().(types.Int); ok {
			return perUnit * uint64(max(n, 0))
		}
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok {
			return uint64(max(n, 0))
		}
	}
	return 0
}
