/** Stores a page's checkpoints: in the browser's file system, where they persist, and as downloads. */

import { type Bytes } from "./dtypes.js";

/**
 * Stores a file in the origin private file system. An existing file is replaced atomically.
 *
 * @throws {DOMException} There is not enough space, or the browser doesn't let this page store files.
 */
export async function store(name: string, bytes: Bytes): Promise<void> {
  const folder = await navigator.storage.getDirectory();
  const file = await folder.getFileHandle(name, { create: true });
  const stream = await file.createWritable();
  try {
    await stream.write(bytes);
    await stream.close();
  } catch (error) {
    await stream.abort().catch(() => undefined);
    if (!(await file.getFile()).size) await folder.removeEntry(name); // this call created it
    throw error;
  }
}

/** Returns the bytes of a file that `store` wrote, or `null` if there is none. */
export async function stored(name: string): Promise<Bytes | null> {
  const folder = await navigator.storage.getDirectory();
  try {
    const file = await (await folder.getFileHandle(name)).getFile();
    return new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotFoundError") return null;
    throw error;
  }
}

/** Downloads a file to the user's machine. Not available in workers, which have no document. */
export function download(name: string, bytes: Bytes): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads the URL after `click` returns
}
