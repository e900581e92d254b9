import type {Knex} from 'knex';
import type {Clock} from '../kit/clock.ts';
import type {Relay} from '../net/relay-url.ts';
import type {DailyShares} from '../pace/choose-route.ts';
import {type Destinations, mxProvider} from '../pace/destinations.ts';
import {type DayFigures, daysBefore, shareOf, utcDay, type WarmUp} from '../pace/warm-up.ts';
import {readComplaintFigures, readHostFigures} from '../store/queue/sites.ts';

export type WarmUpSharesOptions = {
	readonly warmUps: readonly WarmUp[];
	/** What they answer says nothing of the receivers. */
	readonly relays: readonly Relay[];
	readonly reader: Knex;
	readonly destinations: () => Destinations;
	readonly clock: Clock;
};

/** Days further back count as good ones. */
const mostDays = 60;

/**
 * What new sources may send today. A day is judged by what the store has of it: deferrals by the conversations with the
 * hosts of a provider, complaints by the mail of the whole system.
 */
export function createWarmUpShares({warmUps, relays, reader, destinations, clock}: WarmUpSharesOptions) {
	/** By day, then by provider; a day that is over does not change. */
	const days = new Map<string, Promise<ReadonlyMap<string, DayFigures>>>();
	const smarthosts = new Set(relays.map(({host}) => host));

	async function read(day: string): Promise<ReadonlyMap<string, DayFigures>> {
		const [hosts, complaints] = await Promise.all([readHostFigures(reader, day), readComplaintFigures(reader, day)]);
		const figures = new Map<string, DayFigures>();
		for (const {host, conversations, deferred} of hosts.filter(each => !smarthosts.has(each.host))) {
			const {name} = mxProvider(destinations(), host);
			const before = figures.get(name) ?? {conversations: 0, deferred: 0};
			figures.set(name, {
				...complaints,
				conversations: before.conversations + conversations,
				deferred: before.deferred + deferred,
			});
		}

		return figures;
	}

	function figuresOf(day: string): Promise<ReadonlyMap<string, DayFigures>> {
		let known = days.get(day);
		if (known === undefined) {
			known = read(day);
			days.set(day, known);
			known.catch(() => days.delete(day));
		}

		return known;
	}

	return {
		/** Rejects where the store cannot be read. */
		async today(): Promise<DailyShares> {
			const today = utcDay(clock.now());
			const past = new Set(warmUps.flatMap(({start}) => daysBefore(start, today).slice(-mostDays)));
			const figures = new Map<string, ReadonlyMap<string, DayFigures>>();
			for (const day of past) {
				figures.set(day, await figuresOf(day));
			}

			return (address, provider) => {
				const warmUp = warmUps.find(each => each.address === address);
				if (warmUp === undefined) {
					return null;
				}

				const ofProvider = [...figures].flatMap(([day, all]) => {
					const one = all.get(provider);
					return one === undefined ? [] : [[day, one] as const];
				});
				return shareOf(warmUp, today, new Map(ofProvider));
			};
		},
	};
}
