// Builds each kustomization that is named, and decodes what comes out strictly into the types of Kubernetes and of
// the Prometheus operator: an unknown field, a field twice, or a value of another type is an error.
package main

import (
	"fmt"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// All kinds that the manifests may use.
var kinds = map[string]func() any{
	"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1/Service":                              func() any { return new(core.Service) },
	"v1/ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1/StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
}

func check(folder string) error {
	options := krusty.MakeDefaultOptions()
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return err
		}
		kind := resource.GetApiVersion() + "/" + resource.GetKind()
		empty, known := kinds[kind]
		if !known {
			return fmt.Errorf("%s: unknown kind %s", folder, kind)
		}
		if err := yaml.UnmarshalStrict(text, empty()); err != nil {
			return fmt.Errorf("%s: %s %s: %w", folder, kind, resource.GetName(), err)
		}
		fmt.Printf("---\n%s", text)
	}
	if resources.Size() == 0 {
		return fmt.Errorf("%s makes nothing", folder)
	}
	return nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: check FOLDER …")
		os.Exit(2)
	}
	for _, folder := range os.Args[1:] {
		if err := check(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
