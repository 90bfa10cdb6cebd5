// A parser of `text/event-stream` (HTML Standard, section 9.2.6) for bytes that arrive in any pieces.

/** An event of a stream. */
export interface StreamEvent {
  event: string;
  data: string;
  id: string | undefined;
  /** Milliseconds, if the event has a line `retry`. */
  retry: number | undefined;
}

export class EventParser {
  readonly #decoder = new TextDecoder();
  #text = '';
  #name = '';
  #data: string[] = [];
  #id: string | undefined;
  #retry: number | undefined;

  /** Adds bytes; returns the events that are complete now. */
  push(bytes: Uint8Array): StreamEvent[] {
    // The decoder drops a byte order mark at the beginning, as the standard asks.
    this.#text += this.#decoder.decode(bytes, { stream: true });
    const events: StreamEvent[] = [];
    let start = 0;
    for (;;) {
      const end = lineEnd(this.#text, start);
      // A line that ends in the last CR is complete only when the next character is known: it may be an LF.
      if (end < 0 || (this.#text[end] === '\r' && end + 1 === this.#text.length)) break;
      const event = this.#line(this.#text.slice(start, end));
      if (event) events.push(event);
      start = end + (this.#text.startsWith('\r\n', end) ? 2 : 1);
    }
    this.#text = this.#text.slice(start);
    return events;
  }

  #line(line: string): StreamEvent | undefined {
    if (line === '') return this.#dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? '' : line.slice(colon + 1);
    const value = rest.startsWith(' ') ? rest.slice(1) : rest;
    if (field === 'event') this.#name = value;
    else if (field === 'data') this.#data.push(value);
    else if (field === 'id' && !value.includes('\0')) this.#id = value;
    else if (field === 'retry' && /^[0-9]+$/.test(value)) this.#retry = Number(value);
    return undefined;
  }

  #dispatch(): StreamEvent | undefined {
    const isEmpty = this.#data.length === 0;
    const event = { event: this.#name || 'message', data: this.#data.join('\n'), id: this.#id, retry: this.#retry };
    this.#name = '';
    this.#data = [];
    this.#id = undefined;
    this.#retry = undefined;
    return isEmpty ? undefined : event;
  }
}

function lineEnd(text: string, from: number): number {
  const feed = text.indexOf('\n', from);
  const line = feed < 0 ? text.slice(from) : text.slice(from, feed);
  const carriage = line.indexOf('\r');
  return carriage < 0 ? feed : from + carriage;
}
