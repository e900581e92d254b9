import {findAddresses} from '../addresses.ts';
import type {Detector, Finding} from './finding.ts';
import {readListed} from './listed.ts';

const notDelivered = /^[ \t]*(?:was|could) not (?:be )?delivered to:?[ \t]*$/im;
const reasons = /^[ \t]*-{3,}[ \t]*Failure Reasons?[ \t]*-{3,}[ \t]*$/im;
const because = /^[ \t]*because:?[ \t]*$/im;

/** Lotus Notes and Domino: `was not delivered to: … because: …`, and the older `Failure Reasons` where the reason stands first. */
export const readDomino: Detector = ({said}) => {
	if (notDelivered.test(said) && because.test(said)) {
		return readListed(said, {after: notDelivered}).map(finding => ({
			...finding,
			text: finding.text.replace(because, ''),
		}));
	}
	const head = reasons.exec(said);
	if (head === null) {
		return [];
	}
	return reasonsFirst(said.slice(head.index + head[0].length));
};

function reasonsFirst(text: string): Finding[] {
	const findings: Finding[] = [];
	let reason = '';
	let isOver = false;
	for (const line of text.split('\n')) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found === undefined || line.slice(0, found.start).trim().length > 1) {
			reason = isOver && line.trim() !== '' ? line : `${reason}\n${line}`;
			isOver &&= line.trim() === '';
		} else {
			findings.push({recipient: found.address, text: reason.trim()});
			isOver = true;
		}
	}
	return findings.slice(0, 100);
}
