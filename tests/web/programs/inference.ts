// Programs that use the package's entry for inference; see training.ts.

import {
  Device,
  type HostTensor,
  Inference,
  NoAdapterError,
  type Progress,
  TensorgradError,
  type Value,
  read,
} from "tensorgrad/inference";
// @ts-expect-error: training is not part of it
import { Training } from "tensorgrad/inference";

const device = await Device.request({ powerPreference: "high-performance" });
const plain = await Inference.load("predict.tg", device);
const values: HostTensor = await read(plain.call({ x: 1 }));
const said: Progress[] = [];
const model = await Inference.load<{ label: Value<number>; chances: Value<HostTensor> }, "x">("predict.tg", {
  device,
  onProgress: (progress) => said.push(progress),
});
const { label, chances } = model.call({ x: values });
const total: number = (await label.item()) + (await chances.read()).length;
// @ts-expect-error: there is no such option
await Inference.load("predict.tg", { progress: console.log });
// @ts-expect-error: a device is requested, not made
new Device();
// @ts-expect-error: functions are called
model.step({ x: 1 });
// @ts-expect-error: an adapter of no such kind
await Device.request({ powerPreference: "most" });
// @ts-expect-error: the size may be unknown
said[0]!.loaded / said[0]!.total;

try {
  model.destroy();
} catch (error) {
  if (error instanceof NoAdapterError || error instanceof TensorgradError) console.log(error.message, total, Training);
}
