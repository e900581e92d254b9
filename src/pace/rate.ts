import {createBucket} from './bucket.ts';
import type {SiteState} from './site.ts';

type Rated = Pick<SiteState, 'bucket' | 'share'>;

/** Mails per minute of all nodes together; null: any number. */
export function rateOf({slow, pace}: Pick<SiteState, 'slow' | 'pace'>): number | null {
	return slow ? Math.min(slow.perMinute, pace.perMinute ?? slow.perMinute) : pace.perMinute;
}

/** The site gets so many mails per minute from now on, of which this node has its part; null: any number. */
export function setRate(site: Rated, perMinute: number | null, now: number): void {
	const {share} = site;
	if (share === null || share.term.alone) {
		fillBy(site, perMinute, now, true);
	} else {
		const part = share.perMinute ?? Number.POSITIVE_INFINITY;
		fillBy(site, perMinute === null ? share.perMinute : Math.min(perMinute, part), now, false);
	}
}

/**
 * This node's part changed. `isFirst`: no other node has one, so that nothing was sent lately; else what others sent within
 * the last minute counts too, and the bucket begins empty.
 */
export function setPart(site: Rated, perMinute: number | null, isFirst: boolean, now: number): void {
	if (site.share) {
		site.share.perMinute = perMinute;
	}
	fillBy(site, perMinute, now, isFirst);
}

function fillBy(site: Rated, perMinute: number | null, now: number, full: boolean): void {
	const {bucket} = site;
	if (perMinute === null) {
		site.bucket = null;
	} else if (bucket === null || (bucket.perMinute === 0 && full)) {
		site.bucket = createBucket(perMinute, full && perMinute > 0 ? undefined : 0, now);
	} else if (bucket.perMinute !== perMinute) {
		site.bucket = bucket.withRate(perMinute, now);
	}
}
