/** Checkpoints of a page: in the browser's own file system, where they stay, and as downloads. */

/**
 * Keeps a file in the origin's private file system. It is replaced at once, when it is complete.
 *
 * @throws {DOMException} There is no room for it, or the browser keeps nothing for this page.
 */
export async function store(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const folder = await navigator.storage.getDirectory();
  const file = await folder.getFileHandle(name, { create: true });
  const stream = await file.createWritable();
  try {
    await stream.write(bytes);
    await stream.close();
  } catch (error) {
    await stream.abort().catch(() => undefined);
    if (!(await file.getFile()).size) await folder.removeEntry(name); // it was not there before
    throw error;
  }
}

/** Returns a file that `store` kept, or `null` if there is none. */
export async function stored(name: string): Promise<Uint8Array<ArrayBuffer> | null> {
  const folder = await navigator.storage.getDirectory();
  try {
    const file = await (await folder.getFileHandle(name)).getFile();
    return new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotFoundError") return null;
    throw error;
  }
}

/** Offers a file to the user, as a download. Pages only: workers have no document. */
export function download(name: string, bytes: Uint8Array<ArrayBuffer>): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser takes it up later than the click
}
