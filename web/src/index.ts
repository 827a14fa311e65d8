/** Trains and runs programs that tensorgrad compiled, in a web page. */

export * from "./inference_only.js";
export { type GenerationOptions, TextGenerator } from "./generator.js";
export { download, store, stored } from "./storage.js";
export { type Tensors, Training } from "./training.js";
