/** An event of a stream. */
export interface StreamEvent {
    event: string;
    data: string;
    id: string | undefined;
    /** Milliseconds, if the event has a line `retry`. */
    retry: number | undefined;
}
export declare class EventParser {
    #private;
    /** Adds bytes; returns the events that are complete now. */
    push(bytes: Uint8Array): StreamEvent[];
}
