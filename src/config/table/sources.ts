import {sourceAddress} from '../addresses.ts';
import {list} from '../parsers.ts';
import {optionalList} from '../setting.ts';
import {sourcePool, warmUp} from '../source-values.ts';

/** From which addresses mail goes out. */
export const sources = {
	sourceAddresses: optionalList(
		'MAILCTL_SOURCE_ADDRESSES',
		'–',
		list(sourceAddress),
		'`ip[=ehlo.name]` list of addresses for outgoing connections.',
	),
	sourcePools: optionalList(
		'MAILCTL_SOURCE_POOLS',
		'–',
		list(sourcePool),
		'Names for some of MAILCTL_SOURCE_ADDRESSES, `otp=192.0.2.1+2001:db8::1,bulk=192.0.2.2`; a workspace sends from its pool, without one from all.',
	),
	warmUps: optionalList(
		'MAILCTL_WARM_UP',
		'–',
		list(warmUp),
		'Addresses of MAILCTL_SOURCE_ADDRESSES that are new, and the UTC day they begin: `192.0.2.1=2026-11-01[/target]`. Each sends a little more every day to each provider (docs/reference/pacing.md), what is over goes to MAILCTL_RELAY_URL, or waits.',
	),
};
