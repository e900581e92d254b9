const code = /^[\w-]{1,64}$/;

/** Whether the text can be a topic's code (docs/reference/interface.md, Subscription topic). Codes are compared as they are written. */
export function isTopicCode(text: string): boolean {
	return code.test(text);
}
