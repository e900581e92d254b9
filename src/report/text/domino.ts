import type {Detector} from './finding.ts';
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
	const text = said.slice(head.index + head[0].length);
	return readListed(text).map(finding => ({...finding, text: /\w/.test(finding.text) ? `${text}` : text}));
};
