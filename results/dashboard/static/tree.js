/* Where the nodes of the lineage lie: columns by generation, rows by family, in one pass down and one up over flat arrays.
   A parent stands before its children in the rows' order, so no recursion and no sorting is needed. */
(function () {
  "use strict";
  const ask = window.ask;
  const BROOD = 8; // childless siblings that stand side by side before the next row begins

  function room(old, type, n) {
    return old && old.length >= n ? old : new type(Math.max(1024, n * 2));
  }

  /** Lays all rows out: fills tree.x (generations, broods between them), tree.y (rows from the top), tree.first and tree.next
      (children as linked lists, -1 ends), tree.kids, tree.height, tree.depth. The best path is a straight line where it can be. */
  ask.layoutTree = function (tree) {
    const { n, col } = ask.data;
    for (const [name, type] of Object.entries({ x: Float32Array, y: Float32Array, first: Int32Array, last: Int32Array, next: Int32Array, kids: Int32Array, size: Int32Array, lead: Int32Array, worth: Float32Array })) {
      tree[name] = room(tree[name], type, n);
    }
    const { x, y, first, last, next, kids, size, lead, worth } = tree;
    const { parent, geomean, flags, depth } = col;
    first.fill(-1, 0, n);
    last.fill(-1, 0, n);
    next.fill(-1, 0, n);
    kids.fill(0, 0, n);
    lead.fill(-1, 0, n);
    let roots = -1;
    let lastRoot = -1;
    for (let row = 0; row < n; row++) {
      const above = parent[row] < row ? parent[row] : -1;
      worth[row] = flags[row] & ask.FLAG.best ? 1e9 : geomean[row] > 0 ? geomean[row] : 0;
      if (above >= 0) {
        kids[above]++;
        if (last[above] < 0) first[above] = row;
        else next[last[above]] = row;
        last[above] = row;
      } else {
        if (lastRoot < 0) roots = row;
        else next[lastRoot] = row;
        lastRoot = row;
      }
    }
    tree.roots = roots;
    // Upwards: how many rows a family takes. Of the children that have children, the one whose family goes furthest leads, on its parent's row.
    for (let row = n - 1; row >= 0; row--) {
      let rows = 0;
      let childless = 0;
      for (let child = first[row]; child >= 0; child = next[child]) {
        if (kids[child]) {
          rows += size[child];
          if (lead[row] < 0 || worth[child] > worth[lead[row]]) lead[row] = child;
        } else childless++;
        if (worth[child] > worth[row]) worth[row] = worth[child];
      }
      for (let child = first[row]; child >= 0; child = next[child]) if (flags[child] & ask.FLAG.best) lead[row] = child;
      if (lead[row] < 0 && childless) for (let child = first[row]; child >= 0; child = next[child]) if (lead[row] < 0 || worth[child] > worth[lead[row]]) lead[row] = child;
      const alone = lead[row] >= 0 && !kids[lead[row]];
      size[row] = Math.max(1, rows + (alone ? 1 : 0) + Math.ceil((childless - (alone ? 1 : 0)) / BROOD));
    }
    // Downwards: the leader keeps the row, the childless stand below it in broods, then the other families.
    let free = 0;
    let deepest = 0;
    let leader = roots;
    for (let row = roots; row >= 0; row = next[row]) if (worth[row] > worth[leader]) leader = row;
    const place = (row) => {
      x[row] = depth[row];
      y[row] = free;
      free += size[row] + (kids[row] ? 1 : 0);
    };
    if (roots >= 0) place(leader);
    for (let row = roots; row >= 0; row = next[row]) if (row !== leader) place(row);
    for (let row = 0; row < n; row++) {
      if (depth[row] > deepest) deepest = depth[row];
      if (!kids[row]) continue;
      const own = lead[row];
      x[own] = x[row] + 1;
      y[own] = y[row];
      let below = y[row] + (kids[own] ? size[own] : 1);
      let placed = 0;
      for (let child = first[row]; child >= 0; child = next[child]) {
        if (kids[child] || child === own) continue;
        x[child] = x[row] + 0.34 + (0.5 * (placed % BROOD)) / (BROOD - 1);
        y[child] = below + Math.floor(placed / BROOD);
        placed++;
      }
      below += Math.ceil(placed / BROOD);
      for (let child = first[row]; child >= 0; child = next[child]) {
        if (!kids[child] || child === own) continue;
        x[child] = x[row] + 1;
        y[child] = below;
        below += size[child];
      }
    }
    Object.assign(tree, { height: Math.max(1, free), deepest });
    return tree;
  };

  /** The rows from this one to its root, this one first. */
  ask.ancestry = function (row) {
    const line = [];
    for (let at = row; at >= 0 && line.length <= ask.data.n; at = ask.data.col.parent[at] < at ? ask.data.col.parent[at] : -1) line.push(at);
    return line;
  };

  /** Calls for every descendant of a row, parents first. */
  ask.descendants = function (tree, row, call) {
    const open = [row];
    while (open.length) {
      for (let child = tree.first[open.pop()]; child >= 0; child = tree.next[child]) {
        call(child);
        if (tree.kids[child]) open.push(child);
      }
    }
  };
})();
