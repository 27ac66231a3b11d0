// What the server's metrics, in Prometheus's text format, say about the library.

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;

/** The bytes of all memories and of the store's file, and the median time of a question; null where unknown. */
export function libraryFigures(text) {
  const samples = text.split("\n").map((line) => SAMPLE.exec(line)).filter(Boolean);
  const gauge = (wanted) => {
    const sample = samples.find(([, name]) => name === wanted);
    return sample === undefined ? null : Number(sample[3]);
  };
  const buckets = samples
    .filter(([, name, labels]) => name === "attar_request_seconds_bucket" && labels.includes('route="ask"'))
    .map(([, , labels, value]) => [bound(/le="([^"]*)"/.exec(labels)[1]), Number(value)])
    .sort(([one], [other]) => one - other);
  const figures = { memory: gauge("attar_store_memory_bytes"), file: gauge("attar_store_file_bytes") };
  return { ...figures, question: median(buckets) };
}

/** The median of a histogram's buckets, [upper bound, count up to it], smallest first; null if it has none. */
export function median(buckets) {
  const half = (buckets.at(-1)?.[1] ?? 0) / 2;
  let [low, below] = [0, 0];
  for (const [high, count] of half ? buckets : []) {
    if (count >= half) return high === Infinity ? low : low + ((high - low) * (half - below)) / (count - below);
    [low, below] = [high, count];
  }
  return null;
}

function bound(written) {
  return written === "+Inf" ? Infinity : Number(written);
}
