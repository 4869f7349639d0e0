// Hash prints the hash Karpenter gives to the NodePools it reads as JSON, one per line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	out := bufio.NewWriter(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for line := 1; in.Scan(); line++ {
		var pool v1.NodePool
		if err := json.Unmarshal(in.Bytes(), &pool); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		fmt.Fprintln(out, pool.Hash())
	}
	if err := in.Err(); err != nil {
		return err
	}
	return out.Flush()
}
