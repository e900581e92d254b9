import type {Delivery} from './delivery.ts';
import type {Extensions} from './hello.ts';

/** Which reports the recipient's side is asked for (RFC 3461 §4.1). */
export type Notify = 'FAILURE' | 'SUCCESS,FAILURE';

const plainPath = /^[\x21-\x3b\x3d\x3f-\x7e]*$/;
const utf8Path = /^[\x21-\x3b\x3d\x3f-\x7e\u00a0-\u{10ffff}]*$/u;

/** Whether the addresses can stand between `<` and `>` and be nothing else; the last wall against command injection. */
export function isSafeEnvelope({from, to, smtputf8}: Delivery['envelope']): boolean {
	const path = smtputf8 ? utf8Path : plainPath;
	return to !== '' && path.test(to) && plainPath.test(from);
}

/** The MAIL command with the parameters that the server knows. */
export function mailCommand({envelope, ref, data}: Delivery, {size, smtputf8, dsn}: Extensions): string {
	return (
		`MAIL FROM:<${envelope.from}>` +
		(size ? ` SIZE=${data.length}` : '') +
		(smtputf8 && envelope.smtputf8 ? ' SMTPUTF8' : '') +
		(dsn && ref !== '' ? ` RET=HDRS ENVID=${xtext(ref)}` : '') +
		'\r\n'
	);
}

/** The RCPT command. ORCPT makes reports name the address that we wrote to, through all aliases. */
export function rcptCommand({envelope}: Delivery, {dsn}: Extensions, notify: Notify): string {
	const isAscii = plainPath.test(envelope.to);
	const original = isAscii ? `rfc822;${xtext(envelope.to)}` : `utf-8;${unitext(envelope.to)}`;
	return `RCPT TO:<${envelope.to}>${dsn ? ` NOTIFY=${notify} ORCPT=${original}` : ''}\r\n`;
}

/** RFC 3461 §4: what is not a plain printable character becomes `+` and two hexadecimal digits. */
function xtext(text: string): string {
	return Buffer.from(text)
		.toString('latin1')
		.replace(
			/[^\x21-\x2a\x2c-\x3c\x3e-\x7e]/g,
			byte => `+${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
		);
}

/** RFC 6533 §3, utf-8-addr-unitext: UTF-8 as it is, what would break the parameter as `\x{…}`. */
function unitext(text: string): string {
	return text.replace(/[\x00-\x20+=\\\x7f]/g, byte => `\\x{${byte.charCodeAt(0).toString(16).toUpperCase()}}`);
}
