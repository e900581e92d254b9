import type {Logger} from 'pino';
import {type Clock, noticeableSkewMs} from '../kit/clock.ts';
import type {Store} from '../store/store.ts';
import {createThrottle} from './throttle.ts';

const lookMs = 60_000;
const tellMs = 60 * 60_000;

export type ClockSkewOptions = {
	readonly store: Pick<Store, 'skew'>;
	readonly clock: Pick<Clock, 'monotonic'>;
	readonly logger: Logger;
};

/** Warns that this machine's clock is not the database's. Mail goes by the database's; the log and TLS do not. */
export function watchClockSkew({store, clock, logger}: ClockSkewOptions): {readonly stop: () => void} {
	const isTimeToTell = createThrottle(tellMs, clock);
	function look(): void {
		const skew = store.skew();
		if (Math.abs(skew) > noticeableSkewMs && isTimeToTell('')) {
			const text = 'The clock of this machine differs from the clock of the database: keep both by NTP.';
			logger.warn({event: 'clock_skew', ahead_seconds: Math.round(skew / 100) / 10}, text);
		}
	}
	look();
	const timer = setInterval(look, lookMs);
	return {stop: () => clearInterval(timer)};
}
