import type { StreamEvent } from "./call.js";

/** Server-sent events, as far as Holdfast sends them. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const events = text.split(/\r?\n\r?\n/);
      text = events.pop() ?? "";
      for (const event of events) {
        const read = readEvent(event);
        if (read) yield read;
      }
    }
  } finally {
    await reader.cancel();
  }
}

function readEvent(lines: string): StreamEvent | undefined {
  const fields: Record<string, string> = {};
  for (const line of lines.split(/\r?\n/)) {
    const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields[name] = value;
  }
  if (fields.data === undefined) return undefined;
  return { id: fields.id ?? "", event: fields.event ?? "message", data: JSON.parse(fields.data) };
}
