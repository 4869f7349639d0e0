// Command solve asks the unmodified Karpenter scheduler where pods go.
//
// It reads one case per line on standard input, {"objects": [...], "preferencePolicy": "...", "minValuesPolicy": "..."},
// where objects are Kubernetes objects as the API server would give them, and writes one plan per line. Pods without a
// node count as pending; NodePools count as ready. Instance types come from a file in the KWOK provider's format.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

type problem struct {
	Objects          []json.RawMessage `json:"objects"`
	PreferencePolicy string            `json:"preferencePolicy"`
	MinValuesPolicy  string            `json:"minValuesPolicy"`
}

type nodeClaim struct {
	NodePool      string   `json:"nodePool"`
	InstanceTypes []string `json:"instanceTypes"`
	Zones         []string `json:"zones"`
	CapacityTypes []string `json:"capacityTypes"`
	PricePerHour  float64  `json:"pricePerHour"`
	Pods          []string `json:"pods"`
}

type existing struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

type unschedulable struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

type plan struct {
	NodeClaims    []nodeClaim     `json:"nodeClaims"`
	Existing      []existing      `json:"existing"`
	Unschedulable []unschedulable `json:"unschedulable"`
	WallMillis    float64         `json:"wallMillis"`
	CPUMillis     float64         `json:"cpuMillis"`
	PeakMiB       int64           `json:"peakMiB"`
	Error         string          `json:"error,omitempty"`
}

func main() {
	catalog := flag.String("instance-types", "", "instance types, in the KWOK provider's format; its own 144 without it")
	workers := flag.Int("workers", 1, "scheduler workers")
	flag.Parse()
	log.SetLogger(logr.Discard())

	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(in)
	for decoder.More() {
		var p problem
		if err := decoder.Decode(&p); err != nil {
			fmt.Fprintln(os.Stderr, "reading a case:", err)
			os.Exit(1)
		}
		result, err := solve(p, *catalog, *workers)
		if err != nil {
			result = plan{Error: err.Error()}
		}
		if err := out.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, "writing a plan:", err)
			os.Exit(1)
		}
	}
}

func solve(p problem, catalog string, workers int) (plan, error) {
	ctx := context.Background()
	opts := &options.Options{
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		CPURequests:       int64(workers) * 1000,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true},
	}
	if p.PreferencePolicy != "" {
		opts.PreferencePolicy = options.PreferencePolicy(p.PreferencePolicy)
	}
	if p.MinValuesPolicy != "" {
		opts.MinValuesPolicy = options.MinValuesPolicy(p.MinValuesPolicy)
	}
	ctx = injection.WithControllerName(options.ToContext(ctx, opts), "provisioner")
	ctx = kwokoptions.ToContext(ctx, &kwokoptions.Options{InstanceTypesFilePath: catalog})
	instanceTypes, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		return plan{}, err
	}
	objects, err := decode(p.Objects)
	if err != nil {
		return plan{}, err
	}
	kubeClient := newClient(objects)
	provider := kwok.NewCloudProvider(ctx, kubeClient, instanceTypes)
	realClock := clock.RealClock{}
	cluster := state.NewCluster(realClock, kubeClient, provider)
	if err := fill(ctx, cluster, objects); err != nil {
		return plan{}, err
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	provisioner := provisioning.NewProvisioner(kubeClient, recorder, provider, cluster, realClock, nil, nil)

	nodes := cluster.DeepCopyNodes()
	pods, err := provisioner.GetPendingPods(ctx)
	if err != nil {
		return plan{}, err
	}
	schedulerOptions := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(workers),
		scheduling.MinValuesPolicy(opts.MinValuesPolicy),
	}
	if opts.PreferencePolicy == options.PreferencePolicyIgnore {
		schedulerOptions = append(schedulerOptions, scheduling.IgnorePreferences)
	}
	runtime.GC()
	cpu, start := cpuTime(), time.Now()
	scheduler, err := provisioner.NewScheduler(ctx, pods, nodes.Active(), nil, schedulerOptions...)
	if err != nil {
		return plan{}, err
	}
	results, err := scheduler.Solve(ctx, pods)
	if err != nil {
		return plan{}, err
	}
	results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	wall, cpu := time.Since(start), cpuTime()-cpu
	answer := describe(results)
	answer.WallMillis, answer.CPUMillis = float64(wall.Microseconds())/1e3, float64(cpu.Microseconds())/1e3
	answer.PeakMiB = peakMiB()
	return answer, nil
}

func describe(results scheduling.Results) plan {
	answer := plan{NodeClaims: []nodeClaim{}, Existing: []existing{}, Unschedulable: []unschedulable{}}
	for _, claim := range results.NewNodeClaims {
		ordered := claim.InstanceTypeOptions.OrderByPrice(claim.Requirements)
		names := make([]string, 0, len(ordered))
		for _, instanceType := range ordered {
			names = append(names, instanceType.Name)
		}
		price := 0.0
		if len(ordered) > 0 {
			offerings := ordered[0].Offerings.Available().Compatible(claim.Requirements)
			if len(offerings) > 0 {
				price = offerings.Cheapest().Price
			}
		}
		answer.NodeClaims = append(answer.NodeClaims, nodeClaim{
			NodePool:      claim.NodePoolName,
			InstanceTypes: names,
			Zones:         claim.Requirements.Get(corev1.LabelTopologyZone).Values(),
			CapacityTypes: claim.Requirements.Get(v1.CapacityTypeLabelKey).Values(),
			PricePerHour:  price,
			Pods:          podNames(claim.Pods),
		})
	}
	for _, node := range results.ExistingNodes {
		if len(node.Pods) > 0 {
			answer.Existing = append(answer.Existing, existing{Node: node.Name(), Pods: podNames(node.Pods)})
		}
	}
	for pod, err := range results.PodErrors {
		answer.Unschedulable = append(answer.Unschedulable, unschedulable{Pod: podName(pod), Reason: err.Error()})
	}
	return answer
}

// decode turns raw objects into typed ones in the state in which Karpenter would consider them.
func decode(raw []json.RawMessage) ([]client.Object, error) {
	objects := make([]client.Object, 0, len(raw))
	for i, text := range raw {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &u.Object); err != nil {
			return nil, fmt.Errorf("object %d, %w", i, err)
		}
		typed, err := scheme.Scheme.New(u.GroupVersionKind())
		if err != nil {
			return nil, fmt.Errorf("object %d, %w", i, err)
		}
		if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return nil, fmt.Errorf("object %d, %w", i, err)
		}
		object := typed.(client.Object)
		if object.GetUID() == "" {
			object.SetUID(types.UID(fmt.Sprintf("%s/%s/%s", u.GetKind(), object.GetNamespace(), object.GetName())))
		}
		switch o := object.(type) {
		case *corev1.Pod:
			if o.Spec.NodeName == "" {
				o.Status.Conditions = append(o.Status.Conditions, corev1.PodCondition{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				})
			}
		case *v1.NodePool:
			o.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
			o.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
			o.StatusConditions().SetTrue(status.ConditionReady)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func newClient(objects []client.Object) client.Client {
	builder := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...)
	builder = builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
	builder = builder.WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string {
		return []string{o.(*corev1.Node).Spec.ProviderID}
	})
	builder = builder.WithIndex(&v1.NodeClaim{}, "status.providerID", func(o client.Object) []string {
		return []string{o.(*v1.NodeClaim).Status.ProviderID}
	})
	builder = builder.WithIndex(&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}
	})
	type reference = func(*v1.NodePool) string
	for field, get := range map[string]reference{
		"group": func(n *v1.NodePool) string { return n.Spec.Template.Spec.NodeClassRef.Group },
		"kind":  func(n *v1.NodePool) string { return n.Spec.Template.Spec.NodeClassRef.Kind },
		"name":  func(n *v1.NodePool) string { return n.Spec.Template.Spec.NodeClassRef.Name },
	} {
		builder = builder.WithIndex(&v1.NodePool{}, "spec.template.spec.nodeClassRef."+field, func(o client.Object) []string {
			return []string{get(o.(*v1.NodePool))}
		})
	}
	return builder.Build()
}

// fill tells the cluster state what the informers would tell it, claims before nodes before pods.
func fill(ctx context.Context, cluster *state.Cluster, objects []client.Object) error {
	for _, object := range objects {
		if claim, ok := object.(*v1.NodeClaim); ok {
			cluster.UpdateNodeClaim(claim)
		}
	}
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			if err := cluster.UpdateNode(ctx, node); err != nil {
				return err
			}
		}
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Pod:
			if err := cluster.UpdatePod(ctx, o); err != nil {
				return err
			}
		case *appsv1.DaemonSet:
			if err := cluster.UpdateDaemonSet(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func podNames(pods []*corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, podName(pod))
	}
	return names
}

func usage() syscall.Rusage {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u
}

func cpuTime() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakMiB() int64 {
	u := usage()
	return u.Maxrss / 1024
}
