package restjson

import "testing"

// What a poll will take is known before it is decoded. A key is no value of its own.
func TestMeasure_LIM3(t *testing.T) {
	for body, want := range map[string]measure{
		``:                       {},
		`{}`:                     {others: 1},
		`[[],{}, 1 ,"a",null]`:   {others: 6},
		`{"a":{"b":[1,-2.5e3]}}`: {others: 5},
		`{"resource_names":["a","b"],"node":{"id":"n"}}`:                              {names: 3, others: 3},
		`{"resourceNames" : ["a"],"x":1}`:                                             {names: 2, others: 2},
		`{"resource_locators":[{"name":"a","dynamic_parameters":{"b":"c"}}],"x":[1]}`: {names: 5, others: 3},
		`{"resourceLocators":[{}]}`:                                                   {names: 2, others: 1},
		`{"node":{"resource_names":[1,2]}}`:                                           {others: 5},
		`{"resource\u005fnames":["a"]}`:                                               {others: 3},
		`{"version_info":"1"}`:                                                        {others: 2, presents: true},
		"{\"versionInfo\"\t:\n\"1\"}":                                                 {others: 2, presents: true},
		`{"version_info":"","a":"b"}`:                                                 {others: 3},
		`{"version_info":null,"a":"b"}`:                                               {others: 3},
		`{"node":{"version_info":"1"},"a":"version_info"}`:                            {others: 4},
		`{"a":"\"[1,2]\\","b":"\\\""}`:                                                {others: 3},
		`{"a":"no end,[1,2]`:                                                          {others: 2},
		`"`:                                                                           {others: 1},
		`"\`:                                                                          {others: 1},
		`[1,2,3]::::`:                                                                 {others: 4},
		`["":"":"":]`:                                                                 {others: 1},
		`}}}[1`:                                                                       {others: 2},
		"\x00\xff1\"a\"":                                                              {others: 2},
	} {
		text := []byte(body)
		if got := measured(text); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if n := testing.AllocsPerRun(10, func() { measured(text) }); n > 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}
