import type {BounceText} from './bounce-text.ts';
import {detectors} from './detectors.ts';
import type {Finding} from './finding.ts';
import {readFml} from './fml.ts';
import {readGeneric} from './generic.ts';
import {mayBeBounce} from './signs.ts';

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
