// Programs that compile, and misuse that doesn't: `@ts-expect-error` fails where the line below it has no error.

import {
  type HostTensor,
  type Inference,
  Training,
  type Value,
  download,
  read,
  readArrays,
  store,
  stored,
} from "tensorgrad";

const plain = await Training.load("training.tg");
const loss: number = await plain.step({ x: [[1, 2]], labels: new Int32Array(1) }).item();
const losses: number[] = await plain.run(3, async (index) => ({ x: index }));
// @ts-expect-error: the loss is an object until it is read
const early: number = plain.step({ x: 1 });
// @ts-expect-error: text is no input
plain.step({ x: "1" });
// @ts-expect-error: inputs have names
plain.step([1, 2]);
// @ts-expect-error: settings are numbers
plain.set({ learning_rate: "high" });

type Results = [Value<number>, { accuracy: Value<number>; classes: Value<HostTensor>[] }];
const training = await Training.load<Results, "x" | "labels">(new URL("training.tg", location.href));
const [, metrics] = training.step({ x: [1], labels: [0] });
const [read0, read1] = await read(training.step({ x: [1], labels: [0] }));
const sum: number = read0 + read1.accuracy + (read1.classes[0]?.data[0] ?? 0);
const rows = await training.run(2, { x: [1], labels: [0] });
const last: number | undefined = rows.at(-1)?.[1].accuracy;
// @ts-expect-error: labels are missing
training.step({ x: [1] });
// @ts-expect-error: there is no input y
training.step({ x: [1], labels: [0], y: [2] });
// @ts-expect-error: there is no metric of this name
metrics.recall;
// @ts-expect-error: results hold values, not numbers
type Wrong = Training<{ loss: number }>;

const given: Training<Value<number>, "x"> = await Training.load("training.tg");
const names: readonly number[] = given.inputs.x.shape;
// @ts-expect-error: there is no input y
given.inputs.y;

const predict = await training.attach("predict.tg");
const chances: HostTensor = await read(predict.call({ x: [1] }));
const both: Inference<{ mean: Value<number> }> = await training.attach("both.tg");
const mean: number = (await read(both.call({ x: 1 }))).mean;

const saved = await training.save();
await store("run.tg", saved);
const kept = await stored("run.tg");
// @ts-expect-error: there may be no such file
await training.restore(kept);
if (kept) await training.restore(kept, { signal: AbortSignal.timeout(1000) });
download("run.tg", saved);
training.loadParameters(await training.parameters());

const { images } = await readArrays<"images" | "labels">("digits.safetensors");
plain.step({ x: images, labels: images.data.subarray(0, 2) });

console.log(loss, losses, early, sum, last, names, chances, mean);
export type { Wrong };
