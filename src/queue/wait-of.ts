import type {LaneWait} from '../mail/way.ts';
import type {Moment} from '../pace/saved.ts';
import {connectionsOf, isProbing, mailsAllowed} from '../pace/site.ts';
import type {Lane} from './lane.ts';
import {inFlightOf, ownRoom, type Site} from './site.ts';

/** Why a lane's mail is not claimed. */
export type Wait = {
	readonly waitsFor: LaneWait;
	/** Monotonic milliseconds; null: nobody knows. */
	readonly until: number | null;
	/** What the site gets now, connections or mails per minute; null: that is not why. */
	readonly gets: number | null;
	/** For people: a sentence. */
	readonly detail: () => string;
};

/** Why a lane waits that has work, or whose site is left alone while its mail is due later. `most`: copies under way in all. */
export function waitOf(lane: Lane, most: number, now: Moment): Wait {
	const {destination, state, spent} = lane;
	const site = siteOf(lane);
	switch (state) {
		case 'suspended':
			return wait('operator', null, () => `an operator suspended ${destination}, mailctl queue resume lets it go on`);
		case 'spent':
			return wait('warm_up', now.monotonic + (lane.at ?? now.now) - now.now, () =>
				spent ? sharedOut(spent) : 'the source is new and has sent all of today',
			);
		default:
			return site
				? waitAt(site, destination, most, now)
				: wait('dns', null, () => `where mail for ${destination} goes is being found out`);
	}
}

/** Where the lane's mail goes, or went last. */
export const siteOf = ({placed, restsAt}: Lane): Site | null => placed?.site ?? restsAt;

function waitAt(site: Site, destination: string, most: number, now: Moment): Wait {
	const {suspension, slow, pace} = site.state;
	if (suspension) {
		const probing = isProbing(site.state, now.monotonic);
		const why =
			suspension.waitsFor === 'route' ? 'the smarthost refuses us' : `the hosts of ${destination} are left alone`;
		const then = probing ? '; one mail is on its way to find out whether that is over' : '';
		return wait(suspension.waitsFor, probing ? null : suspension.until, () => `${why}: ${suspension.reason}${then}`);
	}
	if (mailsAllowed(site.state, now.monotonic) < 1) {
		const perMinute = slow?.perMinute ?? pace.perMinute ?? 0;
		return wait(
			'rate',
			slow?.until ?? null,
			() => `its hosts get ${mails(perMinute)} per minute${slow ? ' for now' : ''}`,
			perMinute,
		);
	}
	if (ownRoom(site, most, now.monotonic) < 1) {
		const connections = connectionsOf(site.state, now.monotonic);
		return wait(
			'pace',
			null,
			() => `its hosts get ${connections} connections now, ${mails(inFlightOf(site))} are under way`,
			connections,
		);
	}
	return wait('turn', null, () => 'all sessions are busy with other mail, its turn comes');
}

function wait(waitsFor: LaneWait, until: number | null, detail: () => string, gets: number | null = null): Wait {
	return {waitsFor, until, gets, detail};
}

const sharedOut = ({source, group, perDay}: {source: string; group: string; perDay: number}): string =>
	perDay === 0
		? `${source} is new and does not send yet (MAILCTL_WARM_UP)`
		: `${source} is new and has sent ${group} the ${mails(perDay)} of today`;

const mails = (n: number): string => (n === 1 ? '1 mail' : `${n} mails`);
