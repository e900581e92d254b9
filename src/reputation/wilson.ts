/** The 97.5 % point of the normal distribution: two-sided 95 %. */
const z = 1.959964;

/**
 * The lower bound of Wilson's 95 % interval for a share of which `hits` of `trials` were seen: what the share is at least,
 * by all that so few trials can tell. 0 where there were none.
 */
export function wilsonLowerBound(hits: number, trials: number): number {
	if (trials <= 0) {
		return 0;
	}

	const share = Math.min(1, hits / trials);
	const centre = share + z ** 2 / (2 * trials);
	const margin = z * Math.sqrt((share * (1 - share)) / trials + z ** 2 / (4 * trials ** 2));
	return Math.max(0, (centre - margin) / (1 + z ** 2 / trials));
}
