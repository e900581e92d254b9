import {findAddresses} from '../addresses.ts';
import type {Detector} from './finding.ts';

const reason = /This Message was undeliverable due to the following reason:?/i;
const each = /^[ \t]*Recipient:/m;
const recipient = /^[ \t]*(?:SMTP[ \t]*)?<([^<>\s]{3,320})>[ \t]*$/gm;
const tail = /^[ \t]*Please reply to/im;

/** Post.Office and InterMail, which many carriers run: one reason for all, and below it the recipients. */
export const readPostOffice: Detector = ({said}) => {
	const head = reason.exec(said);
	const body = head === null ? '' : said.slice(head.index + head[0].length);
	if (head === null || each.test(body)) {
		return [];
	}
	const text = body.slice(0, tail.exec(body)?.index);
	return [...text.matchAll(recipient)]
		.slice(0, 100)
		.flatMap(([, found]) => findAddresses(found as string).slice(0, 1))
		.map(({address}) => ({recipient: address, text}));
};
