import {networkInterfaces} from 'node:os';
import type {Settings} from '../config/settings.ts';

/** Where this system itself takes mail on the port that mail is sent to: an MX there would hand the mail back to us. */
export function ownAddresses({inboundListen, mxPort}: Pick<Settings, 'inboundListen' | 'mxPort'>): readonly string[] {
	if (inboundListen === null || inboundListen.port !== mxPort) {
		return [];
	}

	const {host} = inboundListen;
	if (host !== '0.0.0.0' && host !== '::') {
		return [host];
	}

	return Object.values(networkInterfaces()).flatMap(list => (list ?? []).map(({address}) => address));
}
