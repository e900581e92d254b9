const advice = /; if the root CA is installed locally, try running Node\.js with [\w-]+$/;

/**
 * What OpenSSL says of a certificate. Node.js 24 adds advice about an option of its own: the operator has `MAILCTL_CA_FILE`.
 */
export function withoutAdvice(message: string): string {
	return message.replace(advice, '');
}
