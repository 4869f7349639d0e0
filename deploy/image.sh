#!/usr/bin/env bash
# Packs a static `headstart` binary into a container image from scratch, without a container engine.
#
#   deploy/image.sh BINARY OUTPUT.tar [TAG]
#
# The output is an OCI archive that holds one file and is the same, byte for byte, for the same binary:
#
#   skopeo copy oci-archive:OUTPUT.tar docker://registry.example.com/headstart:0.1.0
set -euo pipefail

if [[ $# -lt 2 ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
binary=$1 output=$2 tag=${3:-latest}

if [[ ! -x $binary ]]; then
  echo "$binary is not a program; build it first" >&2
  exit 1
fi
# A program that needs a loader says so in its headers, and would find none in an empty image.
if LC_ALL=C readelf --program-headers "$binary" | grep --quiet INTERP; then
  echo "$binary is not static; build it with RUSTFLAGS='-C target-feature=+crt-static' and --target" >&2
  exit 1
fi
case $(LC_ALL=C readelf --file-header "$binary" | awk '/Machine:/ {print $NF}') in
  X86-64) architecture=amd64 ;;
  AArch64) architecture=arm64 ;;
  *) echo "$binary is for a machine that images are not built for" >&2; exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/content" "$work/image/blobs/sha256"
install -m 0555 "$binary" "$work/content/headstart"

pack() { tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar --directory "$1" "${@:2}"; }

# Files a blob under its digest and prints its descriptor.
blob() {
  local digest size
  digest=$(sha256sum "$2" | cut -d' ' -f1)
  size=$(stat --format=%s "$2")
  mv "$2" "$work/image/blobs/sha256/$digest"
  printf '{"mediaType":"%s","digest":"sha256:%s","size":%s' "$1" "$digest" "$size"
}

pack "$work/content" headstart > "$work/layer.tar"
content=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
gzip --no-name --best "$work/layer.tar"
layer=$(blob application/vnd.oci.image.layer.v1.tar+gzip "$work/layer.tar.gz")

printf '{"architecture":"%s","os":"linux","config":{"User":"65532:65532","Entrypoint":["/headstart"],"Cmd":["run"],"Labels":{"org.opencontainers.image.title":"headstart","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
  "$architecture" "$content" > "$work/config.json"
config=$(blob application/vnd.oci.image.config.v1+json "$work/config.json")

printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s},"layers":[%s}]}' \
  "$config" "$layer" > "$work/manifest.json"
manifest=$(blob application/vnd.oci.image.manifest.v1+json "$work/manifest.json")

printf '{"imageLayoutVersion":"1.0.0"}' > "$work/image/oci-layout"
printf '{"schemaVersion":2,"manifests":[%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}' \
  "$manifest" "$architecture" "$tag" > "$work/image/index.json"

pack "$work/image" oci-layout index.json blobs > "$work/output.tar"
mv "$work/output.tar" "$output"
echo "$output: $(stat --format=%s "$output" | numfmt --to=iec), linux/$architecture, tag $tag"
