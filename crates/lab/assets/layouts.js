// Where sites stand in a picture: on a circle, or as a tree.

/** Places on a circle; `size` is the side of the picture. */
export function circle(count, size) {
  const radius = count === 1 ? 0 : size / 2 - 30;
  return Array.from({ length: count }, (_, at) => {
    const angle = (at / count) * 2 * Math.PI - Math.PI / 2;
    return { x: size / 2 + radius * Math.cos(angle), y: size / 2 + radius * Math.sin(angle) };
  });
}

/** Places of a tree, given each site's neighbours; the root is site 0. */
export function tree(neighbours, width) {
  const count = neighbours.length;
  const depth = new Array(count).fill(-1), children = Array.from({ length: count }, () => []);
  const order = [0];
  depth[0] = 0;
  for (const site of order) {
    for (const other of neighbours[site]) {
      if (depth[other] >= 0) continue;
      depth[other] = depth[site] + 1;
      children[site].push(other);
      order.push(other);
    }
  }
  const leaves = order.filter((site) => children[site].length === 0).length || 1;
  const places = new Array(count).fill(null);
  let next = 0;
  const put = (site) => {
    const below = children[site].map(put);
    const x = below.length ? below.reduce((sum, value) => sum + value, 0) / below.length : (next++ + 0.5) * (width / leaves);
    places[site] = { x, y: 26 + depth[site] * 62 };
    return x;
  };
  put(0);
  // Whoever the tree does not reach stands below it.
  places.forEach((place, site) => { places[site] = place ?? { x: (site + 0.5) * (width / count), y: 26 + 62 * (Math.max(...depth) + 1) }; });
  return places;
}

/** The neighbours in a binary tree filled level by level. */
export function heap(count) {
  const neighbours = Array.from({ length: count }, () => []);
  for (let site = 1; site < count; site++) {
    const parent = (site - 1) >> 1;
    neighbours[site].push(parent);
    neighbours[parent].push(site);
  }
  return neighbours;
}
