// Turns what a tool returns into values.

export type Image = { type: 'image'; mimeType: string; data: Uint8Array };
export type Audio = { type: 'audio'; mimeType: string; data: Uint8Array };
export type Resource = { type: 'resource'; uri: string; mimeType?: string; text?: string; data?: Uint8Array };
export type ResourceLink = { type: 'resource_link'; uri: string; name: string; [key: string]: unknown };

/** The result of a call, as the protocol defines it. */
export type CallResult = { content?: unknown; structuredContent?: unknown; isError?: boolean };

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null;
const bytes = (base64: unknown): Uint8Array => new Uint8Array(Buffer.from(String(base64), 'base64'));
const contents = (result: CallResult): unknown[] => (Array.isArray(result.content) ? result.content : []);

/** Returns the structured content, or the value of the one content, or a list of values. */
export function unwrap(result: CallResult): unknown {
  if (result.structuredContent !== undefined && result.structuredContent !== null) return result.structuredContent;
  const unwrapped = contents(result).map(unwrapContent);
  return unwrapped.length > 1 ? unwrapped : (unwrapped[0] ?? null);
}

/** Returns the message of a result that is an error. */
export function errorMessage(result: CallResult): string {
  const texts = contents(result).flatMap((content) =>
    isObject(content) && content.type === 'text' ? [String(content.text)] : [],
  );
  return texts.join('\n') || 'The tool failed without a message.';
}

function unwrapContent(content: unknown): unknown {
  if (!isObject(content)) return content;
  if (content.type === 'text') return parsedIfJson(String(content.text ?? ''));
  if (content.type === 'image' || content.type === 'audio') {
    return { type: content.type, mimeType: content.mimeType, data: bytes(content.data) };
  }
  if (content.type !== 'resource' || !isObject(content.resource)) return content;
  const { blob, ...rest } = content.resource;
  return { type: 'resource', ...rest, ...(blob === undefined ? {} : { data: bytes(blob) }) };
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
