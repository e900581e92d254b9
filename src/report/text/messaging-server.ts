import {findAddresses} from '../addresses.ts';
import type {Detector, Finding} from './finding.ts';

const entry = /^[ \t]*Recipient address:[ \t]*/im;

/** Sun, iPlanet, Oracle Messaging Server and its fathers (PMDF): entries of `Recipient address:`, `Reason:`, `Diagnostic code:`. */
export const readMessagingServer: Detector = ({said}) => {
	const findings: Finding[] = [];
	for (const text of said.split(entry).slice(1, 100)) {
		const recipient = findAddresses(text.slice(0, 400))[0];
		const original = /^[ \t]*Original address:[ \t]*(.{1,400})/im.exec(text)?.[1];
		const originalRecipient = original && findAddresses(original)[0]?.address;
		if (recipient !== undefined) {
			const {address, end} = recipient;
			findings.push({recipient: address, text: text.slice(end), ...(originalRecipient && {originalRecipient})});
		}
	}
	return findings;
};
