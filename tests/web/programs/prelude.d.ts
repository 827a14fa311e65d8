// What blocks of the documentation use without declaring it: names of earlier blocks, and what a bundler imports.

declare const Training: typeof import("tensorgrad").Training;
declare const training: import("tensorgrad").Training;

declare module "*?url" {
  const address: string;
  export default address;
}
