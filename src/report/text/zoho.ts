import {findAddresses} from '../addresses.ts';
import type {Detector, Finding} from './finding.ts';

const unreached = /\[Status:[^\n<]{0,60}Address:[ \t]*<([^<>\s]{3,320})>,([^\n\]]{0,1000})/g;

/** Zoho: `address Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 …`, or `[Status: Error, Address: <address>, ResponseCode 421 …]`. */
export const readZoho: Detector = ({said}) => {
	const findings: Finding[] = [];
	for (const line of said.includes('ERROR_CODE') ? said.split('\n') : []) {
		const found = findAddresses(line.slice(0, 400))[0];
		if (found !== undefined && line.includes('ERROR_CODE') && line.slice(0, found.start).trim().length < 4) {
			// The two codes are told apart as if each were one of its own.
			const text = line.slice(found.end).replaceAll(/,?[ \t]{0,4}ERROR_CODE[ \t]{0,4}:/g, ' ');
			findings.push({recipient: found.address, text: text.trim()});
		}
	}
	for (const [, recipient, text] of said.matchAll(unreached)) {
		findings.push({recipient: recipient as string, text: text as string});
	}
	return findings.slice(0, 100);
};
