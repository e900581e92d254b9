import {type ParsedMail, simpleParser} from 'mailparser';

/** Parses a message with a third-party library, without any conversion between html and text. */
export async function read(mail: Buffer): Promise<ParsedMail> {
	return await simpleParser(mail, {
		skipHtmlToText: true,
		skipTextToHtml: true,
		skipTextLinks: true,
		skipImageLinks: true,
	});
}

/** Returns the unfolded header fields in order. */
export function headerLines(mail: Buffer): string[] {
	const text = mail.toString('utf8');
	return text
		.slice(0, text.indexOf('\r\n\r\n'))
		.replaceAll(/\r\n(?=[ \t])/g, '')
		.split('\r\n');
}
