// Package suites keeps in go.mod what upstream's end-to-end suites import, so that they can be compiled from here.
package suites

import (
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "sigs.k8s.io/karpenter/test/pkg/environment/common"
)
