// Turns what a tool returns into values.

import { ToolError } from './errors.js';

export type Image = { type: 'image'; mimeType: string; data: Uint8Array };
export type Audio = { type: 'audio'; mimeType: string; data: Uint8Array };
export type Resource = { type: 'resource'; uri: string; mimeType?: string; text?: string; data?: Uint8Array };
export type ResourceLink = { type: 'resource_link'; uri: string; name: string; [key: string]: unknown };

/** What JSON can hold. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** The result of a call, as the protocol defines it. */
export type CallResult = { content?: unknown; structuredContent?: unknown; isError?: boolean };

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null;
const contents = (result: CallResult): unknown[] => (Array.isArray(result.content) ? result.content : []);

/** Returns the structured content, or the value of the one content, or a list of values; or always the list. */
export function unwrap(result: CallResult, about: { server: string; tool: string }, as?: 'list'): unknown {
  const structured = result.structuredContent;
  if (as !== 'list' && structured !== undefined && structured !== null) return structured;
  const unwrapped = contents(result).map((content) => unwrapContent(content, about));
  if (as === 'list') return unwrapped;
  return unwrapped.length > 1 ? unwrapped : (unwrapped[0] ?? null);
}

/** Returns the message of a result that is an error. */
export function errorMessage(result: CallResult): string {
  const texts = contents(result).flatMap((content) =>
    isObject(content) && content.type === 'text' ? [String(content.text)] : [],
  );
  return texts.join('\n') || 'The tool failed without a message.';
}

function unwrapContent(content: unknown, about: { server: string; tool: string }): unknown {
  const bytes = (of: string, base64: unknown): Uint8Array => {
    const decoded = fromBase64(base64);
    if (decoded === undefined) throw new ToolError(`The tool returned ${of} whose data is not base64.`, about);
    return decoded;
  };
  if (!isObject(content)) return content;
  if (content.type === 'text') return parsedIfJson(String(content.text ?? ''));
  if (content.type === 'image' || content.type === 'audio') {
    const of = content.type === 'image' ? 'an image' : 'audio';
    return { type: content.type, mimeType: content.mimeType, data: bytes(of, content.data) };
  }
  if (content.type !== 'resource' || !isObject(content.resource)) return content;
  const { blob, ...rest } = content.resource;
  return { type: 'resource', ...rest, ...(blob === undefined ? {} : { data: bytes('a resource', blob) }) };
}

/** Decodes base64, also with line breaks or without padding, as some servers write it; undefined if it is none. */
function fromBase64(encoded: unknown): Uint8Array | undefined {
  if (typeof encoded !== 'string') return undefined;
  const text = encoded.replaceAll(/\s/g, '').replace(/=*$/, '');
  if (!/^[A-Za-z0-9+/]*$/.test(text) || text.length % 4 === 1) return undefined;
  return new Uint8Array(Buffer.from(text, 'base64'));
}

/** Parses only objects and arrays: the text "42" may well be meant as text. */
function parsedIfJson(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
