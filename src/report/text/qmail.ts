import type {Detector} from './finding.ts';
import {readListed} from './listed.ts';

const introductions = new RegExp(
	[
		'Hi\\. (?:This is|The MTA|This message)',
		'qmail-send program',
		'(?:unable|wasn.t able|not able|failed) to deliver (?:your |this |the )?(?:message|mail|e-?mail) to the following (?:e-?mail )?(?:address|recipient|user)',
		'(?:message|mail|e-?mail)(?: message)? to the following (?:e-?mail )?(?:address|recipient)[^\\n]{0,20} (?:could not|cannot|was not)',
		'Unable to deliver message to the following address',
		'We.re sorry\\. There.s a problem with the e-?mail address',
		'(?:could not|cannot|can not|was not|couldn.t) (?:be )?deliver(?:ed)?[^\\n]{0,40} to the following (?:e-?mail )?(?:address|recipient|user)',
		'following (?:e-?mail )?(?:address|recipient)(?:es|s|\\(e?s\\))?[^\\n]{0,40}(?:rejected|failed|not accept|could not)',
	].join('|'),
	'i',
);
const paragraph = /^[ \t]{0,8}<[^<>\s]{1,320}>:/m;

/** qmail and those that bounce as it does (Yahoo!, James, MailFoundry, many appliances): paragraphs that begin with `<address>:`. */
export const readQmail: Detector = ({said, senders}) => {
	const introduction = introductions.exec(said);
	if (introduction === null) {
		return [];
	}
	const start = paragraph.exec(said)?.index;
	// It tells which hosts it gives up on, not the mail.
	const withoutHosts = (text: string) => text.replace(/^Giving up on [^\n]{0,200}$/gm, '');
	const findings =
		start === undefined
			? readListed(said.slice(introduction.index), {except: senders})
			: readListed(said.slice(start), {line: paragraph});
	return findings.map(finding => ({...finding, text: withoutHosts(finding.text)}));
};
