import {type ParsedMail, simpleParser} from 'mailparser';

/** Reads a mail with a library that is not ours, without any conversion between html and text. */
export async function read(mail: Buffer): Promise<ParsedMail> {
	return await simpleParser(mail, {
		skipHtmlToText: true,
		skipTextToHtml: true,
		skipTextLinks: true,
		skipImageLinks: true,
	});
}

/** The header fields, unfolded, in order. */
export function headerLines(mail: Buffer): string[] {
	const text = mail.toString('utf8');
	return text
		.slice(0, text.indexOf('\r\n\r\n'))
		.replaceAll(/\r\n(?=[ \t])/g, '')
		.split('\r\n');
}
