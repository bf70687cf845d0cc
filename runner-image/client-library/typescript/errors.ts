// The errors that a call of a tool throws.

/** The tool failed; the message is the server's own. */
export class ToolError extends Error {
  readonly server: string;
  readonly tool: string;
  readonly code: string;
  readonly hint?: string;

  constructor(message: string, about: { server: string; tool: string; code?: string; hint?: string }) {
    const name = about.tool ? `${about.server}/${about.tool}: ` : '';
    super(`${name}${message}${about.hint ? `\n${about.hint}` : ''}`);
    this.server = about.server;
    this.tool = about.tool;
    this.code = about.code ?? 'tool_error';
    if (about.hint) this.hint = about.hint;
  }

  override get name(): string {
    return this.constructor.name;
  }

  /** Prints as its message and the program's own frames; the message has all that its fields say. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const lines = String(this.stack).split('\n');
    return lines.filter((line) => !/^ +at .*(?:\/servers\/\S+\.ts:|node:)/.test(line)).join('\n');
  }
}

/** The role of this execution may not call the tool. */
export class ToolDenied extends ToolError {}

/** The server, or the gateway to it, cannot be reached. */
export class ToolUnavailable extends ToolError {}

/** The arguments do not fit the tool. */
export class InvalidArguments extends ToolError {}

/** Too many calls, too many at once, or too many bytes. */
export class ToolLimitExceeded extends ToolError {}

/** A skill was used in a way that has no end, or returned what is not JSON. */
export class SkillError extends ToolError {}

/** A tool changed under the skill, and it was not proven with the new one. */
export class SkillStale extends SkillError {}
