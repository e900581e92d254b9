import type {BounceText} from './bounce-text.ts';
import {
	readDomino,
	readExchange,
	readGmail,
	readMessagingServer,
	readMfilter,
	readPostOffice,
	readZoho,
} from './commercial-mailers.ts';
import type {Detector, Finding} from './finding.ts';
import {readGeneric} from './generic.ts';
import {readAnnounced, readSentences} from './sentences.ts';
import {mayBeBounce} from './signs.ts';
import {readDragonfly, readExim, readFml, readPostfix, readQmail, readSendmail} from './unix-mailers.ts';

/** What a mail's text says of recipients; nothing: it is no bounce. */
export function findingsOf(bounce: BounceText): Finding[] {
	for (const detect of [readFml, ...(mayBeBounce(bounce) ? [...detectors, readGeneric] : [])]) {
		const findings = detect(bounce);
		if (findings.length > 0) {
			return findings;
		}
	}
	return [];
}

/** The families of text bounces, those with the most specific words first. The first that finds a recipient decides. */
const detectors: readonly Detector[] = [
	readDragonfly,
	readMfilter,
	readZoho,
	readGmail,
	readExchange,
	readMessagingServer,
	readSendmail,
	readDomino,
	readPostfix,
	readPostOffice,
	readExim,
	readQmail,
	readAnnounced,
	readSentences,
];
