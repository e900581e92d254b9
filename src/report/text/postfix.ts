import type {Detector} from './finding.ts';
import {readListed} from './listed.ts';

const postfix =
	/This is the (?:Postfix|mail system|[\w.-]{1,60}) (?:program )?at host|your message could not be\s{1,4}delivered to one or more (?:recipients|destinations)|Your message could not be delivered for|attached returned message|Postfix program/i;

/** Postfix where its delivery status got lost: `<address> (expanded from <address>): host …[…] said: …`. */
export const readPostfix: Detector = ({said}) => {
	const start = postfix.exec(said);
	const rest = start === null ? '' : said.slice(start.index);
	const first = /^<[^<>\n]{1,320}>/m.exec(rest);
	// What goes on is indented, and may begin with another address.
	return first === null ? [] : readListed(rest.slice(first.index), {line: /^</});
};
