const {statSync} = require('node:fs');

/**
 * The program as a bundle, which starts sooner; where tsc has run since that was made, or it was never made, as tsc wrote it.
 * Of an installed package nothing but the bundle is there.
 */
exports.newest = dist => {
	const timeOf = file => statSync(`${dist}/${file}`, {throwIfNoEntry: false})?.mtimeMs ?? 0;
	return `${dist}/${timeOf('bundle/cli/main.js') > timeOf('.tsbuildinfo') ? 'bundle' : 'src'}/cli/main.js`;
};
