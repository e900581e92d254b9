import process from 'node:process';

/**
 * Whether load tests run at their full size (`npm run test:load`); else at a tenth of it, which shows what is lost or
 * stuck.
 */
export const fullLoad = process.env.LOAD === 'full';

/** A number of things or seconds of the full size, at the size of this run. */
export function scaled(full: number): number {
	return fullLoad ? full : Math.ceil(full / 10);
}
