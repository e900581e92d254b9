/**
 * Bounds how many things each owner has under way at once.
 *
 * @returns takes a seat and answers what gives it back; undefined: the owner has `most` already
 */
export function createSeats(most: number): (owner: string) => (() => void) | undefined {
	const taken = new Map<string, number>();
	return owner => {
		const count = taken.get(owner) ?? 0;
		if (count >= most) {
			return undefined;
		}
		taken.set(owner, count + 1);
		let left = false;
		return () => {
			if (left) {
				return;
			}
			left = true;
			const rest = (taken.get(owner) ?? 1) - 1;
			if (rest === 0) {
				taken.delete(owner);
			} else {
				taken.set(owner, rest);
			}
		};
	};
}
