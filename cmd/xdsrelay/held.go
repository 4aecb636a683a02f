package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func heldCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "held",
		Short: "Show what relays hold back from clients, and why",
		Long: `Show what relays hold back from clients: who holds it and why, since when and until when,
and the difference. A line with "-" is what clients have, a line with "+" is what the
control plane sent last.

The command never shows payloads of secrets. It blanks fields that Envoy's API declares
sensitive. It shows the size of payloads of unknown types.

` + exitCodes("a relay refused or failed"),
		Example: `  xdsrelay held
  xdsrelay held --upstream istiod --type cds --output json
  xdsrelay held --admin 10.0.0.1:19100,10.0.0.2:19100`,
		Args: noArguments,
	}
	o := newActFlags(cmd)
	o.last(false)
	cmd.RunE = cli.Action(func(*cobra.Command, []string) error {
		return look(o, "/held", heldText)
	})
	return cmd
}

// heldText shows what a relay holds.
func heldText(b *bytes.Buffer, a *adminclient.Answer[admin.HeldPage], now time.Time) {
	if len(a.Value.Orders)+len(a.Value.Held) == 0 {
		fmt.Fprintf(b, "%s: nothing is held\n", a.Address)
		return
	}
	fmt.Fprintf(b, "%s:\n", a.Address)
	for i := range a.Value.Orders {
		orderText(b, &a.Value.Orders[i], now)
	}
	for i := range a.Value.Held {
		typeText(b, &a.Value.Held[i], now)
	}
}

func orderText(b *bytes.Buffer, x *admin.OrderView, now time.Time) {
	c := admin.Command{Upstream: x.Upstream, Scope: x.Scope}
	if x.TypeURL != "" {
		c.Types = []string{keyer.ShortName(x.TypeURL)}
	}
	if !x.Held {
		fmt.Fprintf(b, "  an operator's order: not held: %s\n", selection(&c))
		return
	}
	but := ""
	if x.Endpoints {
		but = ", endpoints flow"
	}
	fmt.Fprintf(b, "  an operator's order: held since %s, %s: %s%s\n", ago(now, x.Since), untilText(now, x.Until), selection(&c), but)
}

func typeText(b *bytes.Buffer, x *admin.HeldView, now time.Time) {
	fmt.Fprintf(b, "  %s of upstream %s, scope %s: held by the %s since %s, %s: %s removed, %d changed or new\n", logs.Printable(keyer.ShortName(x.TypeURL)),
		logs.Printable(x.Upstream), scopeText(x.Scope), logs.Printable(x.Why), ago(now, x.Since), untilText(now, x.Until), plural(x.Removed, "name"), x.Changed)
	for i := range x.Names {
		nameText(b, &x.Names[i])
	}
	if x.More > 0 {
		fmt.Fprintf(b, "    and %s more\n", plural(x.More, "name"))
	}
}

func nameText(b *bytes.Buffer, n *admin.HeldName) {
	name := logs.Printable(n.Name)
	switch {
	case n.Received == nil:
		fmt.Fprintf(b, "    %s: removed", name)
		if n.Error != "" {
			fmt.Fprintf(b, " (%s)", logs.Printable(n.Error))
		}
	case n.Released == nil:
		fmt.Fprintf(b, "    %s: new, version %s", name, logs.Printable(n.ReceivedVersion))
	default:
		fmt.Fprintf(b, "    %s: changed, version %s to %s", name, logs.Printable(n.ReleasedVersion), logs.Printable(n.ReceivedVersion))
	}
	b.WriteString("\n")
	for _, line := range difference(pretty(n.Released), pretty(n.Received)) {
		fmt.Fprintf(b, "      %s\n", logs.PrintableLines(line))
	}
}

func ago(now, then time.Time) string {
	return fmt.Sprintf("%s (%s ago)", then.UTC().Format(time.RFC3339), since(now, then))
}

func untilText(now, until time.Time) string {
	if until.IsZero() {
		return "until it is released"
	}
	return fmt.Sprintf("until %s (in %s)", until.UTC().Format(time.RFC3339), since(until, now))
}

// pretty are the lines of a payload.
func pretty(payload json.RawMessage) []string {
	var b bytes.Buffer
	if len(payload) == 0 || json.Indent(&b, payload, "", "  ") != nil {
		return nil
	}
	return strings.Split(b.String(), "\n")
}

const (
	// maxCompared bounds the lines of which common ones are looked for.
	maxCompared = 2000
	// around is how many unchanged lines are shown before and after a change.
	around = 2
)

// difference compares lines: "- " begins one that only before has, "+ " one that only after has, and
// two spaces one that is near a change. Long texts are shown as a whole.
func difference(before, after []string) []string {
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	lines := make([]string, 0, len(before)+len(after))
	for _, line := range before[:head] {
		lines = append(lines, "  "+line)
	}
	lines = append(lines, middle(before[head:len(before)-tail], after[head:len(after)-tail])...)
	for _, line := range before[len(before)-tail:] {
		lines = append(lines, "  "+line)
	}
	return nearChanges(lines)
}

// middle compares lines by their longest common subsequence.
func middle(before, after []string) (lines []string) {
	if len(before) > maxCompared || len(after) > maxCompared {
		for _, line := range before {
			lines = append(lines, "- "+line)
		}
		before = nil
	}
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := range slices.Backward(before) {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, "  "+before[i])
			i, j = i+1, j+1
		case j == len(after) || i < len(before) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "- "+before[i])
			i++
		default:
			lines = append(lines, "+ "+after[j])
			j++
		}
	}
	return lines
}

// nearChanges leaves out what is far from any change.
func nearChanges(lines []string) (near []string) {
	last, gap := -1, false
	for i, line := range lines {
		if line[0] == ' ' && !changesWithin(lines, i) {
			gap = true
			continue
		}
		if gap && last >= 0 {
			near = append(near, "  ...")
		}
		near, last, gap = append(near, line), i, false
	}
	return near
}

func changesWithin(lines []string, at int) bool {
	for i := max(0, at-around); i <= min(len(lines)-1, at+around); i++ {
		if lines[i][0] != ' ' {
			return true
		}
	}
	return false
}
