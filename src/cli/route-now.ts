import {capturedFolder} from '../deliver/capture.ts';
import {createResolver} from '../dns/resolver.ts';
import type {DnsAnswer, Resolver} from '../mail/dns.ts';
import {isPublicAddress} from '../mail/public-address.ts';
import {simulatorDomain} from '../mail/simulator.ts';
import type {Session} from './session.ts';
import {printable, wrapped} from './text.ts';

type Host = {
	readonly preference: number;
	readonly host: string;
	readonly addresses: ReadonlyArray<{readonly address: string; readonly usable: boolean}>;
	/** Why there are none. */
	readonly fault: string | null;
};

/** Where mail for a destination would go at this moment. */
export type RouteNow =
	| {readonly kind: 'mx'; readonly hosts: readonly Host[]; readonly fault: string | null}
	| {readonly kind: 'relay'; readonly relays: readonly string[]}
	| {readonly kind: 'capture'; readonly folder: string}
	| {readonly kind: 'simulator'};

const dnsTimeoutMs = 5000;

/** Asks DNS as a sender thread would, from this machine. */
export async function routeNow(session: Session, destination: string): Promise<RouteNow> {
	const settings = session.settings();
	if (destination === simulatorDomain) {
		return {kind: 'simulator'};
	}
	switch (settings.delivery) {
		case 'capture':
			return {kind: 'capture', folder: capturedFolder(settings.dataDir)};
		case 'relay':
			return {kind: 'relay', relays: settings.relays.map(({host, port}) => `${host}:${port}`)};
		case 'mx': {
			const clock = session.tools.clock;
			const resolver = createResolver({servers: settings.dnsServers, timeoutMs: dnsTimeoutMs, tries: 1, clock});
			return await mxNow(resolver, destination, settings.allowPrivateMx);
		}
	}
}

async function mxNow(resolver: Resolver, destination: string, anyAddress: boolean): Promise<RouteNow> {
	const answer = await resolver.mx(destination);
	const none = (fault: string): RouteNow => ({kind: 'mx', hosts: [], fault});
	switch (answer.kind) {
		case 'failed':
			return none(`the look-up of ${destination} MX failed: ${answer.code}`);
		case 'nxdomain':
			return none(`${destination} does not exist`);
		case 'nodata':
			return {kind: 'mx', hosts: [await hostNow(resolver, 0, destination, anyAddress)], fault: null};
		case 'found': {
			const named = answer.records
				.map(({exchange, priority}) => ({host: exchange.toLowerCase().replace(/\.$/, ''), priority}))
				.filter(({host}) => host !== '')
				.sort((a, b) => a.priority - b.priority || (a.host < b.host ? -1 : 1));
			return named.length === 0
				? none(`${destination} takes no mail (null MX)`)
				: {
						kind: 'mx',
						hosts: await Promise.all(named.map(({host, priority}) => hostNow(resolver, priority, host, anyAddress))),
						fault: null,
					};
		}
	}
}

async function hostNow(resolver: Resolver, preference: number, host: string, anyAddress: boolean): Promise<Host> {
	const answers = await Promise.all([resolver.aaaa(host), resolver.a(host)]);
	const addresses = answers
		.flatMap(answer => (answer.kind === 'found' ? answer.records : []))
		.map(address => ({address, usable: anyAddress || isPublicAddress(address)}));
	return {preference, host, addresses, fault: addresses.length > 0 ? null : faultOf(answers)};
}

function faultOf(answers: ReadonlyArray<DnsAnswer<string>>): string {
	const failed = answers.find(answer => answer.kind === 'failed');
	return failed === undefined ? 'has no address' : `the look-up failed: ${failed.code}`;
}

/** For people, indented. */
export function routeLines(route: RouteNow, width: number): string[] {
	const lines = (text: string) => wrapped(printable(text), width, '  ');
	switch (route.kind) {
		case 'simulator':
			return lines('simulated: nothing leaves the machine');
		case 'capture':
			return lines(`captured in ${route.folder}: nothing leaves the machine`);
		case 'relay':
			return route.relays.flatMap((relay, n) => lines(`${n + 1}. smarthost ${relay}`));
		case 'mx':
			return [
				...(route.fault === null ? [] : lines(route.fault)),
				...route.hosts.flatMap(host => lines(hostText(host))),
			];
	}
}

function hostText({preference, host, addresses, fault}: Host): string {
	const shown = addresses.map(({address, usable}) => (usable ? address : `${address} (not public: never used)`));
	return `${preference} ${host}  ${fault ?? shown.join(', ')}`;
}
