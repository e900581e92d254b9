import {isIP} from 'node:net';
import {parseTime} from '../../kit/time.ts';
import {defaultTarget, type WarmUp} from '../../pace/warm-up.ts';
import {sourceAddress} from '../addresses.ts';
import {allowed, list, type Parser, value} from '../parsers.ts';
import {optionalList} from '../setting.ts';

/** Source addresses that go by one name. */
type SourcePool = {readonly name: string; readonly addresses: readonly string[]};

/** Words that mean something else where a pool is named. */
const reserved = ['none', 'default'];

/** `name=ip+ip`. */
const sourcePool: Parser<SourcePool> = text => {
	const [name = '', list = '', ...rest] = text.split('=');
	const addresses = list.split('+');
	const isName = /^[a-z0-9][a-z0-9_-]{0,31}$/.test(name) && !reserved.includes(name);
	return isName && rest.length === 0 && addresses.every(address => isIP(address) !== 0)
		? value({name, addresses: [...new Set(addresses)]})
		: allowed('use name=ip+ip, the name in small letters, digits, - and _');
};

/** `ip=2026-11-01` or `ip=2026-11-01/target`. */
const warmUp: Parser<WarmUp> = text => {
	const [, address = '', start = '', digits] = /^([^=]*)=(\d{4}-\d\d-\d\d)(?:\/(\d{1,9}))?$/.exec(text) ?? [];
	const target = digits === undefined ? defaultTarget : Number(digits);
	return isIP(address) !== 0 && parseTime(start) !== undefined && target > 0
		? value({address, start, target})
		: allowed('use ip=date or ip=date/target, such as 192.0.2.1=2026-11-01/20000');
};

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
