import {findAddresses} from './find-addresses.ts';
import type {Detector, Finding} from './finding.ts';

/** Zoho: `address Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 …`, one line each. */
export const readZoho: Detector = ({said}) => {
	const findings: Finding[] = [];
	for (const line of said.includes('ERROR_CODE') ? said.split('\n') : []) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found !== undefined && line.includes('ERROR_CODE') && line.slice(0, found.start).trim().length < 4) {
			// The two codes are told apart as if each were one of its own.
			findings.push({
				recipient: found.address,
				text: line
					.slice(found.end)
					.replaceAll(/,?[ \t]{0,4}ERROR_CODE[ \t]{0,4}:/g, ' ')
					.trim(),
			});
		}
	}
	return findings.slice(0, 100);
};
