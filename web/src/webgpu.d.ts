// The WebGPU flags that this module uses, which TypeScript's library doesn't declare.

declare const GPUBufferUsage: {
  readonly MAP_READ: number;
  readonly COPY_SRC: number;
  readonly COPY_DST: number;
  readonly STORAGE: number;
  readonly INDIRECT: number;
};
declare const GPUMapMode: { readonly READ: number };
declare const GPUShaderStage: { readonly COMPUTE: number };
