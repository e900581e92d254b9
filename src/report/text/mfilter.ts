import {findAddresses} from '../addresses.ts';
import type {Detector} from './finding.ts';

const message = /^-{3,}server message[ \t]*$/im;
const command = /^-{3,}SMTP command[ \t]*$/im;
const verbs = {RCPT: 'rcpt', MAIL: 'mail', EHLO: 'ehlo', HELO: 'ehlo'} as const;

/** m-FILTER: the recipient ends the words above `-------server message`, the command that failed stands below. */
export const readMfilter: Detector = ({said}) => {
	const head = message.exec(said);
	const foot = command.exec(said);
	const recipient = head === null ? undefined : findAddresses(said.slice(0, head.index)).at(-1)?.address;
	if (head === null || recipient === undefined) {
		return [];
	}
	const verb =
		foot === null
			? undefined
			: said
					.slice(foot.index + foot[0].length)
					.trimStart()
					.slice(0, 4)
					.toUpperCase();
	const phase = verbs[verb as keyof typeof verbs];
	return [{recipient, text: said.slice(head.index + head[0].length, foot?.index).trim(), ...(phase && {phase})}];
};
